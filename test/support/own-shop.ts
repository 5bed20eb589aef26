/** A small shop of our own, in the form of tau2-bench's retail domain, and ten tasks for it: one or more for each change. */
import type { Item, Order, ShopData, User } from '../../scripts/shop/shop.ts';
import type { Task } from '../../scripts/shop/tau2.ts';

const CUSTOMERS = 10;
const COLOURS = ['red', 'green', 'blue'];
const PRODUCTS = { lamp: 20.5, chair: 80, kettle: 35.25 };

const HOME = { address1: '1 Mill Lane', address2: '', city: 'Leeds', state: 'WY', country: 'UK', zip: 'LS1' };
const MOVED = { address1: '9 Dock Road', address2: 'Flat 2', city: 'Hull', state: 'EY', country: 'UK', zip: 'HU1' };

function itemOf(name: keyof typeof PRODUCTS, colour: number): Item {
  const options = { colour: COLOURS[colour] ?? '' };
  return { name, product_id: `p-${name}`, item_id: `${name}-${colour}`, price: PRODUCTS[name] + colour, options };
}

function userOf(n: number): User {
  return {
    user_id: `u${n}`,
    name: { first_name: 'Kim', last_name: `Number${n}` },
    address: HOME,
    email: `kim${n}@example.com`,
    payment_methods: {
      [`card_${n}`]: { source: 'credit_card', id: `card_${n}` },
      [`gift_${n}`]: { source: 'gift_card', id: `gift_${n}`, balance: 150 },
    },
    orders: [`#P${n}`, `#D${n}`],
  };
}

function orderOf(n: number, status: 'pending' | 'delivered'): Order {
  const items = [itemOf('lamp', 0), itemOf('chair', 1)];
  const amount = items.reduce((sum, { price }) => sum + price, 0);
  const payment_history = [{ transaction_type: 'payment' as const, amount, payment_method_id: `gift_${n}` }];
  const order_id = status === 'pending' ? `#P${n}` : `#D${n}`;
  return { order_id, user_id: `u${n}`, address: HOME, items, status, payment_history };
}

function productOf([name, price]: [string, number]) {
  const variants = COLOURS.map((colour, n) => {
    const item_id = `${name}-${n}`;
    return [item_id, { item_id, options: { colour }, available: n < 2, price: price + n }] as const;
  });
  return [`p-${name}`, { name, product_id: `p-${name}`, variants: Object.fromEntries(variants) }] as const;
}

const numbers = Array.from({ length: CUSTOMERS }, (_, n) => n);

export const OWN_SHOP: ShopData = {
  products: Object.fromEntries(Object.entries(PRODUCTS).map(productOf)),
  users: Object.fromEntries(numbers.map((n) => [`u${n}`, userOf(n)])),
  orders: Object.fromEntries(
    numbers.flatMap((n) => [
      [`#P${n}`, orderOf(n, 'pending')],
      [`#D${n}`, orderOf(n, 'delivered')],
    ]),
  ),
};

type Action = [name: string, args: Record<string, unknown>];

/** What each customer wants; what a tool refuses is among it. */
const WISHES: ((n: number) => Action[])[] = [
  (n) => [['cancel_pending_order', { order_id: `#P${n}`, reason: 'no longer needed' }]],
  (n) => [['cancel_pending_order', { order_id: `#D${n}`, reason: 'no longer needed' }]],
  (n) => [['modify_user_address', { user_id: `u${n}`, ...MOVED }]],
  (n) => [
    ['modify_pending_order_address', { order_id: `#P${n}`, ...MOVED }],
    ['modify_user_address', { user_id: `u${n}`, ...MOVED }],
  ],
  (n) => [
    ['get_product_details', { product_id: 'p-lamp' }],
    ['modify_pending_order_items', { ...change(`#P${n}`, ['lamp-0'], ['lamp-1']), payment_method_id: `gift_${n}` }],
  ],
  (n) => [['modify_pending_order_payment', { order_id: `#P${n}`, payment_method_id: `card_${n}` }]],
  (n) => [
    ['calculate', { expression: '(21.5 - 20.5) + (80 - 81)' }],
    [
      'exchange_delivered_order_items',
      { ...change(`#D${n}`, ['lamp-0', 'chair-1'], ['lamp-1', 'chair-0']), payment_method_id: `card_${n}` },
    ],
  ],
  (n) => [
    ['return_delivered_order_items', { order_id: `#D${n}`, item_ids: ['chair-1'], payment_method_id: `gift_${n}` }],
  ],
  (n) => [
    ['modify_pending_order_items', { ...change(`#P${n}`, ['lamp-0'], ['lamp-2']), payment_method_id: `gift_${n}` }],
    ['cancel_pending_order', { order_id: `#P${n}`, reason: 'ordered by mistake' }],
    ['return_delivered_order_items', { order_id: `#D${n}`, item_ids: ['lamp-0'], payment_method_id: `gift_${n}` }],
  ],
  () => [
    ['list_all_product_types', {}],
    ['transfer_to_human_agents', { summary: 'asks for a discount' }],
  ],
];

export const OWN_TASKS: readonly Task[] = WISHES.map((wish, n) => {
  const found: Action = ['find_user_id_by_name_zip', { first_name: 'kim', last_name: `Number${n}`, zip: 'LS1' }];
  const looked: Action = ['get_order_details', { order_id: `#P${n}` }];
  const actions = [found, looked, ...wish(n)].map(([name, args]) => ({ name, arguments: args }));
  return { id: String(n), actions };
});

function change(order_id: string, item_ids: string[], new_item_ids: string[]) {
  return { order_id, item_ids, new_item_ids };
}
